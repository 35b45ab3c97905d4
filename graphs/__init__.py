"""The methods: one state machine a file, to be read beside its paper."""
