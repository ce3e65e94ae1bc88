"""What the command line offers: options in; each command hands over to a module that is imported only then."""
