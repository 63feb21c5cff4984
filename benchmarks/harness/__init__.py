"""What the benchmark harness itself costs: throughput beside a bare client, speed of a replay, memory of a long run."""
