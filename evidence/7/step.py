"""step.py NAME KERNELDIR HITS... : boot the suite of exp.sh, and step through migrate_misplaced_folio at these hits."""
import sys, socket, threading, time, shutil, os
from pathlib import Path
import msgspec
from harness.core.paths import default_paths
from harness.guest import image, suite, vm
from harness.kernel import build
from harness.lab.model import preset
name, kdir, channels, *hits = sys.argv[1:]
hits = [int(h) for h in hits]
paths = default_paths(); out = Path(kdir)
k = build.Kernel("base", "7.3.4", "x", paths.cache, out)
bench = Path("/work/s/B/migrate_bench")
if not image.path(k).exists():
    d = Path("/work/s/B/bin"); d.mkdir(exist_ok=True); shutil.copy(bench, d)
    image.build(paths, k, {"usr/bin": d})
files = {"usr/bin/migrate_bench": bench.read_bytes(), "suites/lab": Path("/work/s/B/exp.sh").read_bytes()}
sock = f"/work/s/B/out/{name}.sock"
Path(sock).unlink(missing_ok=True); Path(sock+'.mon').unlink(missing_ok=True)
real = suite.quiet_settings
suite.quiet_settings = lambda *a: msgspec.structs.replace(real(*a), timeout=20000, silent=20000)
e = preset.load(preset.DEFAULT)
dev = (*e.devices(int(channels), 4.91851), ) if int(channels) else ()
dev = (*dev, "-gdb", f"unix:{sock},server=on,wait=off", "-monitor", f"unix:{sock}.mon,server=on,wait=off") if hits else dev
res = {}
def boot():
    res["r"] = suite.run_quietly(paths, k, "lab", Path("/work/s/B/out")/name, files, devices=dev, append=["nokaslr"])
t = threading.Thread(target=boot); t.start()
if hits:
    while not os.path.exists(sock): time.sleep(0.1)
    s = socket.socket(socket.AF_UNIX)
    while True:
        try: s.connect(sock); break
        except OSError: time.sleep(0.1)
    buf = b""
    def recv():
        global buf
        while True:
            i = buf.find(b"$")
            if i >= 0:
                j = buf.find(b"#", i)
                if j >= 0 and len(buf) >= j+3:
                    p = buf[i+1:j]; buf = buf[j+3:]; s.send(b"+"); return p
            d = s.recv(65536)
            if not d: raise EOFError
            buf += d
    def cmd(c):
        c = c.encode(); s.send(b"$"+c+b"#%02x" % (sum(c) & 255)); return recv()
    syms = {}
    for line in open(out/"System.map"):
        a, ty, n = line.split()[:3]; syms.setdefault(n, int(a, 16))
    def reg(n):
        v = cmd(f"p{n:x}")
        return int.from_bytes(bytes.fromhex(v.decode()), "little")
    cmd("qSupported:xmlRegisters=i386"); cmd("?")
    addr = syms["migrate_misplaced_folio"]
    print("bp", hex(addr), cmd(f"Z0,{addr:x},1"))
    m = socket.socket(socket.AF_UNIX); m.connect(sock + ".mon")
    def mon(c):
        m.sendall(c.encode() + b"\n"); time.sleep(0.3)
        m.setblocking(False)
        try: print("mon", c, m.recv(65536)[-60:])
        except BlockingIOError: pass
        m.setblocking(True)
    n = 0
    try:
        while n < hits[-1]:
            cmd("c"); n += 1
            if n in hits:
                i = hits.index(n)
                if i % 2 == 0:
                    mon(f"logfile /work/s/B/out/{name}-{i//2}.exec")
                    mon("one-insn-per-tb on"); mon("log exec,nochain")
                else:
                    mon("log none"); mon("one-insn-per-tb off")
                print("hit", n, flush=True)
            cmd("s")
        cmd(f"z0,{addr:x},1")
        s.send(b"$D#44")
    except EOFError:
        print("gone after", n)
    s.close()
t.join()
print(res["r"].verdict); print(res["r"].results)
