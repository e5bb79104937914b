"""Stacks of LSTM, ON-LSTM and FastTrees cells, and the models on top of them."""
