# What guests on x86-64 use; boards select the rest.
CONFIG_Q35=y
CONFIG_AMD_IOMMU=y
CONFIG_VTD=y
