set -e
git checkout -q -f V2
cat > kernel/configs/trial.config <<'C'
CONFIG_LOCALVERSION="-migrate-offload-image"
CONFIG_CMDLINE_BOOL=y
CONFIG_CMDLINE="console=ttyS0,115200"
CONFIG_EFI=y
CONFIG_EFI_STUB=y
# CONFIG_RANDOMIZE_BASE is not set
C
sed -i 's/    "image": Config((\*_BASE, "image.config"), seed="base"),/&\n    "trial": Config((*_BASE, "trial.config"), seed="base"),/' harness/kernel/build.py
sed -i 's/^CONFIG = "image"/CONFIG = "trial"/' harness/deb/image.py
git diff --stat
make image
