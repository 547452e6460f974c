"""cc.py REF OUT OBJ...: compile single objects of build-base with the sources of REF (repo ED) on pristine. UNDEF=CONFIG_X,.. DEF="""
import subprocess,sys,os,re,shutil
ED=os.environ.get("ED","/work/s/N/ed/edit"); ref,out,*objs=sys.argv[1:]
B="/work/s/lower/.cache/linux/7.3.4-1-bpo13+1/build-base"; PR="/work/s/lower/.cache/shared/linux-7.3.4-1-bpo13+1"
up=os.environ.get("KV","/work/s/N/kv")+"/up"; wk=os.environ.get("KV","/work/s/N/kv")+"/wk"; mt=os.environ.get("KV","/work/s/N/kv")+"/tree"
if os.environ.get("INNER")!="1":
    shutil.rmtree(up,ignore_errors=True); shutil.rmtree(wk,ignore_errors=True)
    for d in(up,wk,mt): os.makedirs(d,exist_ok=True)
    a=subprocess.Popen(["git","-C",ED,"archive",ref],stdout=subprocess.PIPE); subprocess.run(["tar","x","-C",up],stdin=a.stdout,check=True)
    os.environ["INNER"]="1"
    sys.exit(subprocess.call(["unshare","-m","bash","-c",f"mount --make-rprivate / && mount -t overlay overlay -o lowerdir={PR},upperdir={up},workdir={wk} {mt} && exec nice -n 10 python3 {' '.join(sys.argv)}"]))
os.makedirs(f"/work/s/N/o/{out}",exist_ok=True)
undef=[u for u in os.environ.get("UNDEF","").split(",") if u]; deff=[u for u in os.environ.get("DEF","").split(",") if u]
h="/work/s/N/o/undef.h"; open(h,"w").write("".join(f"#undef {u}\n" for u in undef)+"".join(f"#undef {u}\n#define {u} 1\n" for u in deff))
bad=0
for o in objs:
    d,b=os.path.split(o); c=open(f"{B}/{d}/.{b}.cmd").read().split("\n")[0]
    c=re.sub(r"^savedcmd_\S+ := ","",c).split(" ; ")[0].replace("$(pound)","#")
    c=c.replace("/work/s/cold/.cache/linux/7.3.4-1-bpo13+1/tree",mt)
    o2=f"/work/s/N/o/{out}/{o.replace('/','-')}"
    c=re.sub(r"-Wp,-MMD,\S+","",c); c=re.sub(r"-o \S+\.o ",f"-include {h} -W -o {o2} ",c)
    p=subprocess.run(c,shell=True,cwd=B,capture_output=True,text=True)
    print(out,o,"rc",p.returncode, "WARN" if p.stderr else "",flush=True)
    if p.stderr: print(p.stderr[:2500]); bad=1
sys.exit(bad)
