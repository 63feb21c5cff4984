"""Tables, pages and figures for people, and the report on a run."""
