"""Recognition of errors due to lack of memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; torch has an error of its own for a GPU, and none for the CPU."""
    is_torch_gpu = type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or is_torch_gpu or "DefaultCPUAllocator" in str(error)


MESSAGE = "needs more memory than is available"
