"""Differences between architectures when kernels are built, and between machines of QEMU.

x86-64 is the host's own architecture; arm64 is cross-built and always emulated.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Machine:
    """A machine of QEMU that guests run on.

    `console` and `results` are the guest's names of the ports that their logs go to. Where
    `virtio_results` is set the second is a virtio console, since there is one serial port only.
    `device_tree` names a source in guest/machines, '' if QEMU makes its own. A machine of
    that kind has the processors and the memory that its tree says, and knows no NUMA nodes:
    the guest's kernel makes up two (`numa=fake=2`). `engine` is the module that drives its DMA
    engine, and `append` what its kernels are told besides. Our QEMU gets its
    `options` too; Debian's does without.
    """

    name: str
    qemu: str
    machine: str
    cpu: str
    console: str
    results: str
    virtio_results: bool = False
    device_tree: str = ""
    cpus: int | None = None
    memory_mib: int | None = None
    engine: str = "dmasim"
    append: tuple[str, ...] = ("kernelcore=50%",)
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Architecture:
    """How a kernel, and programs that run on it, are built.

    `make_flags` go to every make of the kernel tree; `image` is what it builds for QEMU;
    `tools` is the prefix of the compiler and the binary utilities. A `debian` name means that
    Debian's packages for that architecture hold what guests take from the host otherwise.
    The first machine is the one on which a suite runs that asks for none.
    """

    name: str
    make_flags: tuple[str, ...]
    image: str
    tools: str
    debian: str
    machines: tuple[Machine, ...]

    @property
    def native(self) -> bool:
        """True if the host can run it by itself."""
        return not self.debian

    @property
    def emulators(self) -> set[str]:
        """The programs of QEMU that its machines need."""
        return {machine.qemu for machine in self.machines}

    @property
    def compiler(self) -> str:
        """The C compiler for it, which Debian 12 and 13 both have (debian.pin())."""
        return f"{self.tools}gcc-12"

    @property
    def make_variables(self) -> tuple[str, ...]:
        """The variables of every make of the kernel tree."""
        return (*self.make_flags, f"CC={self.compiler}")


PC = Machine(
    name="pc",
    qemu="qemu-system-x86_64",
    machine="q35",
    # TCG emulates `rep movsb` byte by byte, and virtual time counts each byte as an
    # instruction. Few tests are about that, and 10.0 lets kernels copy so with FSRM too, which
    # 7.2 has not. With LA57 a kernel with KASAN dies now and then at boot: while
    # identify_cpu() fills in boot_cpu_data anew, an interrupt finds no LA57 there and takes the
    # direct map for wild addresses.
    cpu="max,-erms,-fsrm,-la57",
    console="ttyS0",
    results="ttyS1",
    # On a busy host the timer's test at boot fails now and then.
    append=("kernelcore=50%", "no_timer_check"),
)

# Engines of qemu/, with 16 channels each, which are functions or queues of one. IOAT has four: its
# driver allocates 65,536 descriptors for each channel whenever a client comes.
PTDMA = replace(PC, name="ptdma", engine="ptdma", options=("-device", "ptdma") * 16)
AE4DMA = replace(
    PC, name="ae4dma", engine="ae4dma", options=("-device", "ae4dma"),
    append=(*PC.append, "ae4dma.max_hw_q=16"),
)  # fmt: skip
IOAT = replace(PC, name="ioat", engine="ioatdma", options=("-device", "ioat") * 4)
DSA = replace(PC, name="dsa", engine="idxd", options=("-device", "dsa") * 2)
# Two engines behind an IOMMU: QEMU wants that to come first.
_IOMMU = ("-device", "intel-iommu,intremap=off")
IOMMU = replace(
    AE4DMA, name="iommu", engine="ptdma", options=(*_IOMMU, *PTDMA.options, *AE4DMA.options)
)
IOMMU_INTEL = replace(IOAT, name="iommu-intel", options=(*_IOMMU, *IOAT.options, *DSA.options))

VIRT = Machine(
    name="virt", qemu="qemu-system-aarch64", machine="virt,mte=on",
    # The architected pointer authentication is by far the slowest thing to emulate.
    cpu="max,pauth-impdef=on", console="ttyAMA0", results="hvc0", virtio_results=True,
)  # fmt: skip

ZCU102 = Machine(
    name="zcu102", qemu="qemu-system-aarch64", machine="xlnx-zcu102", cpu="",
    console="ttyPS0,115200", results="ttyPS1", device_tree="zcu102.dts", cpus=4, memory_mib=2048,
    # The rest is memory that comes and goes: a pmem-region of the tree.
    engine="zynqmp_dma", append=("numa=fake=2", "mem=1536M"), options=("-audio", "none"),
)  # fmt: skip

X86_64 = Architecture(
    name="x86_64",
    make_flags=("CROSS_COMPILE=x86_64-linux-gnu-",),  # the host's own programs are not pinned
    image="arch/x86/boot/bzImage",
    tools="",
    debian="",
    machines=(PC, PTDMA, AE4DMA, IOAT, DSA, IOMMU, IOMMU_INTEL),
)

ARM64 = Architecture(
    name="arm64", make_flags=("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"),
    image="arch/arm64/boot/Image", tools="aarch64-linux-gnu-", debian="arm64",
    machines=(VIRT, ZCU102),
)  # fmt: skip
