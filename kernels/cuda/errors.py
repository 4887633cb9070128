"""What `kernels.cuda` raises beside ValueError and TypeError for bad arguments."""


class CompileError(ValueError):
    """A kernel that does not compile. The message has the compiler's words and the learner's own lines."""


class LaunchError(RuntimeError):
    """A kernel that could not go on or could not be launched, such as a barrier that not every thread reaches."""
