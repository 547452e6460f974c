import json
for l in open('/work/s/X3/progs.jsonl'):
    p=json.loads(l)
    g=p['moves']*p['gb']
    print(p['way'],p['seed'],p['quantum_ns'],p['case'],p['state'],'moves',p['moves'],'late/GB',round(p['late']/g,1) if g else p['late'],'cpu/GB',round(p['mover_ms']/p['gb'],1) if g else '-','ipi/GB',round(p['ipis']/g) if g else '-','p99',round(p['p99_us'],2),'p999',round(p['p999_us'],1),'longest',round(p['longest_us'],1),'move',round(p['move_ms'],1))
