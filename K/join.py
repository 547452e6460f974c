import sys
LIMIT=int(sys.argv[1])
def width(s): return len(s.expandtabs(8))
def depth(s):
    d=0; q=None; i=0
    while i<len(s):
        c=s[i]
        if q:
            if c=='\\': i+=1
            elif c==q: q=None
        elif c in '"\'': q=c
        elif c in '([': d+=1
        elif c in ')]': d-=1
        i+=1
    return d
for p in sys.argv[2:]:
    L=open(p).read().split('\n'); out=[]; i=0; saved=0
    while i<len(L):
        l=L[i]; s=l.strip()
        if s and not s.startswith(('*','/*','//','#')) and not l.endswith('\\') and depth(l)>0 and not l.rstrip().endswith('{'):
            j=i; d=depth(l); text=l.rstrip(); ok=True
            while d>0 and j+1<len(L):
                j+=1
                n=L[j].strip()
                if n.startswith(('/*','#','//','*')) or '/*' in n or not n or n.endswith(('{','\\')) and depth(L[j])+d>0: ok=False; break
                text+=('' if text.endswith(('(',)) else ' ')+n
                d+=depth(L[j])
            # string concatenation stays
            if ok and d==0 and j>i and width(text)<=LIMIT and '" "' not in text:
                out.append(text); saved+=j-i; i=j+1; continue
        out.append(l); i+=1
    if saved:
        open(p,'w').write('\n'.join(out))
    print(p, saved)
