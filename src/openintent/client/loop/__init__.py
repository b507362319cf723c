"""What only a program with an event loop needs: the twins of modules of the same name in `client`."""
