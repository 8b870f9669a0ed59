package manager

// Build builds the program that Start and Launch run, unless it is there already. They
// do so themselves; this is for whoever measures time.
func Build() error {
	_, err := build()
	return err
}

// Program is the path of that program, for whoever runs it in a way of his own.
func Program() (string, error) { return build() }
