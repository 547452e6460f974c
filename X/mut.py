import tomllib, subprocess, sys, shutil
from pathlib import Path
root=Path("/work/s/X/mtree"); 
if root.exists(): shutil.rmtree(root)
subprocess.run(["git","clone","-q","/work/s/X/tree",str(root)],check=True)
shutil.copy("/work/s/X/tree/mutants/lab.toml", root/"mutants/lab.toml")
new=["lab_next_chunk_is_this_one","lab_losses_are_hidden","lab_cpu_copies_are_shown","lab_one_end_decides","lab_fastest_round_counts","lab_figure_in_prose","lab_touched_is_untouched","lab_whole_folio_is_outside","programs_late_is_lost","programs_move_is_a_gb","programs_other_seed"]
t=tomllib.loads((root/"mutants/lab.toml").read_text())
for n in new:
    m=t[n]; f=root/m["file"]; s=f.read_text(); assert s.count(m["old"]+"\n")==1,n
    f.write_text(s.replace(m["old"]+"\n", m["new"]+"\n"))
    r=subprocess.run([sys.executable,"-m","pytest","-q","-x","-p","no:cacheprovider",*m["test"].split()[1:]],cwd=root,capture_output=True,text=True)
    print(n, "killed" if r.returncode==1 else f"SURVIVES rc={r.returncode} {r.stdout[-300:]}", flush=True)
    f.write_text(s)
