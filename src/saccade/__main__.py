from saccade.cli import main

main()
