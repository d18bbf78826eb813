"""Names, errors and parsers that all packages use. Imports no other package of the service."""
