"""What a run leaves on disk, as typed values: its record, its episodes, their states, and statistics over them."""
