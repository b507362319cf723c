from openintent.cli.root import main

main()
