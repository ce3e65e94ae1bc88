"""kvzip inside of other software: each module needs a package of its own, an optional extra of the same name."""
