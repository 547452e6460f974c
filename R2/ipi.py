"""Boot virtual-time's suite once with its clock in the view, and judge it."""
import sys
from pathlib import Path
from harness.core.paths import Paths
from harness.checks import clock
from harness.guest import suite, vm
import inspect
