from harness.core.paths import default_paths
from harness.checks.lint import limits
import harness.mutants.run as r, harness.mutants.mutant as m
p=default_paths()
print(limits.check(p)); 
for line in limits.table(limits.measure(p), limits.load((p.root/'limits.toml').read_text()))[:6]: print(line)
