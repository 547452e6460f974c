from lib import *
amend()
