package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/clients"
)

// completeTime is how long a shell waits for suggestions.
const completeTime = time.Second

// words are suggestions for a shell: what begins with what was typed, and no
// names of files.
func words(list []string, typed string) ([]string, cobra.ShellCompDirective) {
	return slices.DeleteFunc(list, func(w string) bool { return !strings.HasPrefix(w, typed) }), cobra.ShellCompDirectiveNoFileComp
}

// completeFlag suggests names for the value of a flag.
func (e *env) completeFlag(cmd *cobra.Command, flag string, names func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return words(names(), typed)
	})
	if err != nil {
		panic(err) // the flag is not there
	}
}

// completeFirst suggests names for the first argument.
func completeFirst(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(names(), typed)
	}
}

// serverNames are the servers that are defined, from the files alone.
func (e *env) serverNames() []string {
	w, err := e.openWorkspace()
	if err != nil {
		return nil
	}
	return w.Names()
}

// clientNames are the clients that the crib knows.
func clientNames() []string {
	var names []string
	for _, c := range clients.All() {
		names = append(names, c.ID())
	}
	return names
}

// completeTools suggests the tools that a running crib knows. Without one
// there are no suggestions: it is not worth to start one.
func (e *env) completeTools(cmd *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cfg, _, err := e.whereabouts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	st, err := app.Dial(cfg.Data).Status(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range st.Servers {
		for _, t := range s.Tools {
			names = append(names, t.Address)
			if t.Public != "" {
				names = append(names, t.Public)
			}
		}
	}
	return words(names, typed)
}
