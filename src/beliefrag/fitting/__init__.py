"""Fitting: from episodes with an answer on trial at every state to a calibration."""
