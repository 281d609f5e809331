"""What the commands do: runs, assessments, baselines, reports and estimates of cost."""
