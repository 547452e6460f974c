"""predict.py: write lab/predictions/zen3-ptdma.json from lab/recorded/quick.json (PYTHONPATH=.)"""
import json
from itertools import groupby
from pathlib import Path
from harness.core import jsonio
from harness.lab.report import predicted
from harness.lab.results import Results
r = jsonio.load(Results, Path("lab/recorded/quick.json"))
v = predicted.figures(r)
rows = []
for name, items in groupby(v.items(), key=lambda i: i[0].rsplit(": ", 1)[0]):
    rows.append("  " + ", ".join(f'"{k}": {float(f"{x:.6g}")}' for k, x in items))
Path("lab/predictions/zen3-ptdma.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
