"""The paper's analyses as functions over any job."""
