"""Pictures of statistics: what is drawn (``figures``), and what draws it: a report in HTML, or matplotlib."""
