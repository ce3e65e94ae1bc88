"""Files around the codec: where bytes come from, where they go, and what happens when that fails.

Sources know nothing of dumps and targets nothing of containers: both deal in bytes, names and one-line
errors.
"""

from kvzip.files.directory import DirectoryTarget
from kvzip.files.inputs import Inputs, files_below, inputs_of
from kvzip.files.members import Tree, members
from kvzip.files.naming import (
    Job,
    Plan,
    compressed_name,
    is_container_name,
    plan_outputs,
    restored_name,
)
from kvzip.files.signals import Interrupted, interruptible
from kvzip.files.source import FileSource, guarded
from kvzip.files.target import FileTarget, StreamTarget, target_of

__all__ = [
    "DirectoryTarget",
    "FileSource",
    "FileTarget",
    "Inputs",
    "Interrupted",
    "Job",
    "Plan",
    "StreamTarget",
    "Tree",
    "compressed_name",
    "files_below",
    "guarded",
    "inputs_of",
    "interruptible",
    "is_container_name",
    "members",
    "plan_outputs",
    "restored_name",
    "target_of",
]
