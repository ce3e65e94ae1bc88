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
from kvzip.files.target import FileTarget, StreamTarget, file_target, target_of
from kvzip.files.url import Url, is_url, place

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
    "Url",
    "compressed_name",
    "file_target",
    "files_below",
    "guarded",
    "inputs_of",
    "interruptible",
    "is_container_name",
    "is_url",
    "members",
    "place",
    "plan_outputs",
    "restored_name",
    "target_of",
]
