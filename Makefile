# Thin face of the harness: every target prepares the host (harness/bootstrap.sh, which
# does nothing on a prepared one) and hands over to `python3 -m harness`. One harness at a
# time runs in a checkout; a second one waits.
#
# Variables that `make help` does not explain:
#   CACHE_DIR=<dir>      where all that is cached lives (default: trees and objects in .cache, what
#                        never changes in ~/.cache/migrate-offload, for all clones)
#   SHARED_GB=<n>        how much may be there (default 20)
#   LINUX_SRC=<path>     a Linux 7.3 tree or tarball instead of Debian's linux-source-7.3
#   JOBS=<n>             compile jobs (default: all processors)
#   KEY=<name>           of gpg's key for the repository of apt, or one is made in .cache (deb)
#   SEED=<n>             which random layouts (layouts); also that of virtual time (check)
#   PRESET=<x>           the engine, from lab/presets (lab)
#   OFFLOAD=1, PRESSURE=1  an engine copies; there is too little memory (layouts)

.DEFAULT_GOAL := help
.PHONY: help demo check check-all check-debian deb image image-check bench-copy lab layouts mutants \
	record report kernel qemu series edit save lint lines guest shell clean

CONFIG ?= base
ENGINE ?= dmasim
SUITE ?= hello
# Recipes name variables as "$$NAME": whatever is in a value, no shell takes it apart.
export CACHE_DIR LINUX_SRC JOBS CONFIG ENGINE SUITE ARGS FROM TO PRESET COUNT SEED VCPUS ONLY \
	ALL SHARED SHARED_GB PATCH KCONFIG LSMOD WORKLOAD MACHINE TURN TEST KEY

# The kernel's own make must not inherit this one's flags and job server.
HARNESS := @unset MAKEFLAGS MFLAGS MAKELEVEL; exec harness/bootstrap.sh

help:
	@echo "make demo     build all, migrate process memory through a DMA engine in a guest, verify"
	@echo "              [ENGINE=zdma, ptdma, ae4dma, ioat, dsa: a real driver and its channels]"
	@echo "make check    the tests; the last line counts them; logs in out/check/"
	@echo "              [ONLY=unit,base-*: some stages; TURN=a,b: also groups of long tests]"
	@echo "make check-all  all tests of all groups"
	@echo "make deb      Debian packages: kernel, headers, tools, in out/apt/ for apt [LSMOD=file"
	@echo "              KCONFIG=file: like a machine's kernel; CONFIG=systemd: for QEMU, quick]"
	@echo "make check-debian  a Debian 13 guest installs, uses and removes them"
	@echo "make image    kernel, doctor and redis in a file that boots by EFI, PXE or kexec, and touches"
	@echo "              no disk: out/migrate-offload.efi; make image-check boots it in QEMU"
	@echo "make kernel   the patched kernel and modules, in out/kernel/ [CONFIG=debug|arm64]"
	@echo "make qemu     the emulators that guests run in, with the devices in qemu/, in out/qemu/"
	@echo "make series   each topic for git am, in out/series/ [STEPS=1: and build each step;"
	@echo "              TEST=a,b or all: build and test series with only their needs]"
	@echo "make edit     a git tree of the kernel at a patch: PATCH=topic/number [DISCARD=1]"
	@echo "make save     write the edit back to kernel/patches and kernel/overlay"
	@echo "make lint     checkpatch, sparse, W=1, kernel-doc, ruff, mypy, shellcheck, limits.toml"
	@echo "make lines    lines by series, and beside their limits"
	@echo "make guest    one suite in the guest [SUITE=name ARGS=a,b CONFIG=debug MACHINE=x]"
	@echo "make shell    an interactive shell in the guest [CONFIG=debug]"
	@echo "make lab      measure against a modelled engine in virtual time, in out/lab/"
	@echo "              [QUICK=1: a part; WORKLOAD=redis|postgres|readers|tiering|movers|writers]"
	@echo "make layouts  random layouts of memory against vanilla [COUNT=n SEED=n VCPUS=2"
	@echo "              CONFIG=base|debug|arm64 OFFLOAD=1 PRESSURE=1]"
	@echo "make record   build vanilla, and record what its guests print: the check compares with it"
	@echo "make mutants  break the code on purpose, and see tests go red [ONLY=file,prefix,glob]"
	@echo "make report   the lab's report: FROM=results.json, or files of migrate_bench [TO=dir]"
	@echo "make bench-copy  the copy primitives at native speed on this machine, in out/bench-copy/"
	@echo "make clean    remove out/ [ALL=1: the cache too; SHARED=1: what all clones share]"
	@echo "More variables: see the head of the Makefile. Options of a command, once a host is"
	@echo "prepared: harness/bootstrap.sh <command> --help"

demo:
	$(HARNESS) $@ --engine "$$ENGINE"

check:
	$(HARNESS) $@ --only="$$ONLY" --turn="$$TURN"

check-all:
	$(HARNESS) check --only="$$ONLY" --turn=all

check-debian image image-check lint lines qemu record bench-copy clean:
	$(HARNESS) $@

deb:
	$(HARNESS) $@ $(if $(filter command environment,$(origin CONFIG)),--config "$$CONFIG")

series:
	$(HARNESS) $@ $(if $(STEPS),--build) --test="$$TEST"

edit:
	$(HARNESS) $@ $(if $(DISCARD),--discard) "$$PATCH"

save:
	$(HARNESS) $@

kernel shell:
	$(HARNESS) $@ --config "$$CONFIG"

guest:
	$(HARNESS) $@ --config "$$CONFIG" --args="$$ARGS" --machine "$$MACHINE" --turn="$$TURN" "$$SUITE"

lab:
	$(HARNESS) $@ $(if $(PRESET),--preset "$$PRESET") $(if $(QUICK),--quick) \
		$(if $(WORKLOAD),--workload "$$WORKLOAD")

layouts:
	$(HARNESS) $@ $(if $(COUNT),--count "$$COUNT") $(if $(SEED),--seed "$$SEED") \
		$(if $(VCPUS),--vcpus "$$VCPUS") $(if $(OFFLOAD),--offload) \
		$(if $(PRESSURE),--pressure) \
		$(if $(filter command environment,$(origin CONFIG)),--config "$$CONFIG")

mutants:
	$(HARNESS) $@ --only "$$ONLY"

report:
	$(HARNESS) $@ --from "$$FROM" --to "$$TO"
