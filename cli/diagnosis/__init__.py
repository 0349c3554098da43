"""The checks of `pk doctor` and the explanations of `pk why`."""
