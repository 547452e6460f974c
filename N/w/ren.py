import re,sys,subprocess
SPECIAL=[(b"a channel that has no lane yet",b"a channel that has no dcbm_chan yet"),
 (b"finds no lane of it yet. The",b"finds no dcbm_chan of it yet. The"),
 (b"waits for that lane;",b"waits for that dcbm_chan;"),
 (b"so terminating its\n * channel affects",b"so terminating the\n * channel affects"),
 (b"accesses no folio of the lane,",b"accesses no folio of its share,")]
CM=re.compile(rb"/\*.*?\*/|//[^\n]*",re.S)
def prose(t):
    t=re.sub(rb"\bdcbm_lane\b",b"dcbm_chan",t); t=re.sub(rb"@lane\b",b"@dch",t)
    t=re.sub(rb"\blane->",b"dch->",t); t=ids(t,True)
    return re.sub(rb"\bLane\b",b"Channel",re.sub(rb"\blane(s?)\b",rb"channel\1",t))
def ids(t,comment=False):
    t=re.sub(rb"\b([A-Z_]*)LANE(S?)([A-Z_]*)\b",rb"\1CHAN\2\3",t)
    t=re.sub(rb"\b(\w+_)lane(s?)(_\w+)?\b",lambda m:m[1]+b"chan"+m[2]+(m[3] or b""),t)
    t=re.sub(rb"\blane(s?)(_\w+)\b",rb"chan\1\2",t)
    return t
def code(t):
    t=ids(t); t=re.sub(rb"\blanes\b",b"chans",t); return re.sub(rb"\blane\b",b"dch",t)
def width(s):
    w=0
    for ch in s:
        w = (w//8+1)*8 if ch==9 else w+1
    return w
def lead(n): return b"\t"*(n//8)+b" "*(n%8)
def realign(old,new):
    out=[]; st=[]   # stack of (oldcol,newcol) of unclosed parens
    for o,n in zip(old.split(b"\n"),new.split(b"\n")):
        lo=re.match(rb"[ \t]*",o)[0]
        if st and o.strip():
            oc,nc=st[-1]
            if width(lo)==oc+1 and oc!=nc: n=lead(nc+1)+n.lstrip(b" \t")
        # strip comments/strings for paren tracking
        def cols(s):
            res=[];w=0;i=0;instr=False
            s2=re.sub(rb"/\*.*?(\*/|$)",lambda m:b" "*len(m[0]),s)
            for ch in s2:
                c=bytes([ch])
                if c==b'"': instr=not instr
                elif not instr and c in b"()": res.append((c,w))
                w=(w//8+1)*8 if ch==9 else w+1
            return res
        co,cn=cols(o),cols(n)
        if len(co)==len(cn):
            for (c,a),(_,b) in zip(co,cn):
                if c==b"(": st.append((a,b))
                elif st: st.pop()
        else: sys.stderr.write(f"paren mismatch {o!r}\n")
        if re.match(rb"[}\w#]",o): st=[] if not co else st
        out.append(n)
    return b"\n".join(out)
def transform(t):
    if not re.search(rb"(?i)\b\w*lane\w*\b",t) or b"dcbm" not in t: return t
    a=t
    for x,y in SPECIAL: a=a.replace(x,y)
    out=b"";p=0
    for m in CM.finditer(a):
        out+=code(a[p:m.start()])+prose(m[0]); p=m.end()
    out+=code(a[p:])
    assert a.count(b"\n")==out.count(b"\n")
    return realign(a,out)
def message(t):
    return t.replace(b"struct\ndcbm_lane",b"struct\ndcbm_chan").replace(b"dcbm_lane",b"dcbm_chan")
if __name__=="__main__":
    R=sys.argv[1]
    s=subprocess.run(["git","-C",R,"fast-export","--reference-excluded-parents","--refspec","refs/heads/series:refs/heads/ch","pristine..series"],capture_output=True,check=True).stdout
    o=bytearray();i=0;kind=None
    while i<len(s):
        j=s.index(b"\n",i); line=s[i:j]
        if line.startswith(b"blob"): kind="blob"
        elif line.startswith(b"commit "): kind="commit"
        if line.startswith(b"data "):
            n=int(line[5:]); d=s[j+1:j+1+n]
            d2=transform(d) if kind=="blob" else message(d)
            o+=b"data %d\n"%len(d2)+d2; i=j+1+n; continue
        o+=line+b"\n"; i=j+1
    subprocess.run(["git","-C",R,"fast-import","--quiet","--force"],input=bytes(o),check=True)
