"""Countdown by TRL and by the built-in trainer: do both end at the same Pass@k?"""
