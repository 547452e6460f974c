# mutants on the lab kernel, in the slot of one run
T=$(echo /work/cache/linux/7.3.4*/tree); O=$(echo /work/cache/linux/7.3.4*/build-lab)
cd /work/wt/mapped
for m in ${@}; do
  f=$(sed -n 's#^+++ b/##p' mutants/$m.patch); p=$(sed -n 's/^test = ".*as-is \(.*\)"/\1/p' mutants/$m.toml)
  cp -a $T/$f /tmp/mapped_saved.c
  patch -s -p1 -F0 -d $T < mutants/$m.patch || { echo "$m does not apply"; cp -a /tmp/mapped_saved.c $T/$f; continue; }
  touch $T/$f
  timeout 200 make -C $T O=$O -j1 CC=gcc-12 KBUILD_BUILD_TIMESTAMP='2026-01-01 00:00:00 UTC' KBUILD_BUILD_USER=harness KBUILD_BUILD_HOST=localhost KBUILD_BUILD_VERSION=1 bzImage > /work/tmp/mapped-mut-$m.build 2>&1; echo "$m build rc=$? $(date +%T)"
  cp $O/arch/x86/boot/bzImage /work/tmp/mapped-mut.bz
  cp -a /tmp/mapped_saved.c $T/$f; touch $T/$f
  D=$(dirname $(ls -t out/*/*/qemu.cmd out/guest/*/qemu.cmd 2>/dev/null | head -1)); D=/work/wt/mapped/$D
  R=/work/tmp/mapped-mut-$m.results; C=/work/tmp/mapped-mut-$m.console; : > $R
  bash -c "exec $(sed "s#$D/results.log#$R#; s#$D/console.log#$C#; s#-kernel [^ ]*#-kernel /work/tmp/mapped-mut.bz#; s#mig.args=as-is,[a-z_]*#mig.args=as-is,$p#" $D/qemu.cmd)" > /work/tmp/mapped-mut-$m.log 2>&1 &
  q=$!
  for i in $(seq 120); do grep -q "^guest: done\|panic" $R $C && break; kill -0 $q 2>/dev/null || break; sleep 1; done
  grep -E "not ok|Expected|round|Totals" $R | head -8; grep -m3 -E "BUG|panic" $C
  kill $q 2>/dev/null; wait $q 2>/dev/null
done
