"""The methods of the papers, and the baselines that they are compared with."""
