cd /work/s/cold
mapfile -t a < /tmp/kx.cmd
for i in "${!a[@]}"; do case "${a[$i]}" in root=*) a[$i]="earlyprintk=ttyS0 ${a[$i]}";; none) [ "${a[$((i-1))]}" = -monitor ] && a[$i]="unix:/tmp/kx.sock,server,nowait";; esac; done
rm -f /tmp/kx.sock
"${a[@]}" $EXTRA > /tmp/kx.log 2>&1 < /dev/null &
sleep ${S:-25}; tail -c 1500 /tmp/kx.log
python3 - <<'P'
import socket,time,re
s=socket.socket(socket.AF_UNIX); s.connect('/tmp/kx.sock'); s.settimeout(1)
def cmd(c):
    s.sendall((c+'\n').encode()); out=b''; end=time.time()+4
    while time.time()<end:
        try: out+=s.recv(65536)
        except Exception: pass
    return out.decode(errors='replace')
for i in range(3):
    d=cmd('info registers'); print(d[-2500:] if i==0 else re.findall(r'RIP=\w+|HLT=\d|RSP=\w+',d))
rip=int(re.findall(r'RIP=(\w+)',d)[-1],16); off=(rip-0xffffffff819919b0)
print(hex(off)); print(cmd('memsave 0x%x 131072 "/tmp/logbuf"' % (0xffffffff84a49598+off))[-200:])
P
kill %1
