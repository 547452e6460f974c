# What guests on arm64 use; boards select most of the rest.
CONFIG_ARM_VIRT=y
CONFIG_XLNX_ZYNQMP_ARM=y
CONFIG_OR_IRQ=y
CONFIG_UNIMP=y
CONFIG_VIRTIO_SERIAL=y
