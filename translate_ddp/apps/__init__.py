"""What uses a run or a model: commands, exports, a server, inspections and reports."""
