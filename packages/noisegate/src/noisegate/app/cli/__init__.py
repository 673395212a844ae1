"""The command line: thin verbs over the public API. Heavy modules are imported inside the verbs that need them."""
