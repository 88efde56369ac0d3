"""Files of rows that tests read."""

import json


def write_rows(path, rows):
    """One JSON row a line; the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
