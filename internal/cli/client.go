package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/cli/running"
	"github.com/toolcrib/toolcrib/internal/cli/text"
	"github.com/toolcrib/toolcrib/internal/cli/workspace"
	"github.com/toolcrib/toolcrib/internal/clients"
	"github.com/toolcrib/toolcrib/internal/config"
	"github.com/toolcrib/toolcrib/internal/crib"
)

func (e *env) clientCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "client", GroupID: groupClients, Args: noSuchCommand,
		Short: "Let clients use the crib, each with a token of its own",
		Long:  "Let clients use the crib, each with a token of its own that can list and call\ntools and nothing else.\n\nClients: " + strings.Join(clientNames(), ", ") + ".",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(e.clientAddCommand(), e.clientRemoveCommand(), e.clientListCommand())
	return cmd
}

func (e *env) clientAddCommand() *cobra.Command {
	var replace bool
	var server string
	cmd := &cobra.Command{
		Use: "add CLIENT", Args: args(cobra.ExactArgs(1)),
		Short: "Register the crib in a client",
		Long: `Register the crib in the configuration of a client, and say which file was
changed. Its other servers stay, unless --replace takes them out: run
"toolcrib import" first, so that the crib has them. "toolcrib client remove"
takes back both.`,
		RunE: func(cmd *cobra.Command, given []string) error {
			return e.clientAdd(cmd.Context(), given[0], server, replace)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "take the client's other servers out")
	cmd.Flags().StringVar(&server, "server", "", "only this `server`, its names untouched")
	e.completeFlag(cmd, "server", e.serverNames)
	cmd.ValidArgsFunction = completeFirst(clientNames)
	return cmd
}

func (e *env) clientRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove CLIENT", Args: args(cobra.ExactArgs(1)),
		Short: "Take the crib out of a client, and put back what it replaced",
		RunE:  func(cmd *cobra.Command, given []string) error { return e.clientRemove(cmd.Context(), given[0]) },
	}
	cmd.ValidArgsFunction = completeFirst(clientNames)
	return cmd
}

func (e *env) clientListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Args: args(cobra.NoArgs),
		Short: "List the clients that the crib knows, and which of them use it",
		RunE:  func(*cobra.Command, []string) error { return e.clientList(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (e *env) clientAdd(ctx context.Context, id, server string, replace bool) error {
	client, err := clients.ByID(id)
	if err != nil {
		return err
	}
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	if server != "" {
		if _, ok := w.Source(server); !ok {
			return workspace.NoSuchServer(server, w.Names())
		}
	}
	change := client.Register
	kind := workspace.Register
	var taken []string
	if replace {
		change, kind = client.Replace, workspace.Replace
		if taken, err = e.takenOut(w, client); err != nil {
			return err
		}
	}
	r, err := registration(w.Config, client, server)
	if err != nil {
		return err
	}
	// Once with a stand-in for the token: a file that cannot be changed must
	// not cost the token that the client has.
	if _, _, err := change(e.clients(), r); err != nil {
		return err
	}
	token := tokenName(id, server)
	if client.HTTP() { // a command uses the token of this machine's commands
		if r.Token, err = createToken(w.Config, token); err != nil {
			return err
		}
	}
	changes, line, err := change(e.clients(), r)
	if err == nil {
		err = w.Commit(kind, id, server, changes)
	}
	if err != nil {
		return errors.Join(err, revokeToken(w.Config, token))
	}
	e.tell("%s", line)
	for _, line := range taken {
		e.tell("%s", line)
	}
	runs, err := e.place(w.Config).Announce(ctx)
	if err == nil && !runs && client.HTTP() {
		e.say("No crib is running; start one with: toolcrib serve")
	}
	return err
}

// takenOut says what becomes of the servers that a client loses when the crib
// takes their place.
func (e *env) takenOut(w *workspace.Workspace, client *clients.Client) ([]string, error) {
	entries, err := client.Read(e.clients())
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(x clients.Entry) bool { return clients.IsCrib(x, "") })
	found := w.Plan(entries)
	var lines []string
	for _, p := range found.Take {
		lines = append(lines, fmt.Sprintf("Took out %s, which is not in the crib yet: toolcrib client remove %s puts it back, and then toolcrib import takes it over", p.Name, client.ID()))
	}
	for _, l := range found.Left {
		if l.Here != "" {
			lines = append(lines, fmt.Sprintf("Took out %s: the crib has it, as %s", l.Name, l.Here))
			continue
		}
		lines = append(lines, fmt.Sprintf("Took out %s, which is not in the crib (%s); toolcrib client remove %s puts it back", l.Name, l.Reason, client.ID()))
	}
	return lines, nil
}

// registration is how a client reaches the crib, with a stand-in for its
// token.
func registration(cfg *config.Config, client *clients.Client, server string) (clients.Registration, error) {
	r := clients.Registration{Name: registrationName(server), Token: "later"}
	if client.HTTP() {
		at, err := address(cfg)
		r.URL = "http://" + at + mcp.Endpoint(server)
		return r, err
	}
	program, err := running.LastingProgram()
	if err != nil {
		return r, err
	}
	r.Command = append([]string{program, "connect"}, placeFlags(cfg)...)
	if server != "" {
		r.Command = append(r.Command, "--server", server)
	}
	return r, nil
}

// registrationName is the crib's name in a client: clients build names of
// tools from it, so it has no dash.
func registrationName(server string) string {
	if server == "" {
		return clients.RegistrationName
	}
	return clients.RegistrationName + "_" + strings.ReplaceAll(server, "-", "_")
}

// address is where clients will reach the crib: where it is, or where it will
// be.
func address(cfg *config.Config) (string, error) {
	now, ok, err := app.FindRunning(cfg.Data)
	if err != nil {
		return "", err
	}
	at := cfg.Listen
	if ok && now.Address != "" {
		at = now.Address
	}
	if strings.HasSuffix(at, ":0") {
		return "", crib.Errorf(crib.Invalid, "a client needs an address that stays, and port 0 is another one each time; set listen: in toolcrib.yaml")
	}
	return running.HostHeader(cfg.AllowedHosts, at), nil
}

// tokenName names the token of a client, or of a client for one server.
func tokenName(client, server string) string {
	if server == "" {
		return "client-" + client
	}
	return "client-" + client + "-for-" + server
}

func createToken(cfg *config.Config, name string) (string, error) {
	data, err := app.OpenData(cfg.Data)
	if err != nil {
		return "", err
	}
	defer data.Close() //nolint:errcheck // the token is written
	return data.CreateToken(name)
}

func revokeToken(cfg *config.Config, name string) error {
	data, err := app.OpenData(cfg.Data)
	if err != nil {
		return err
	}
	defer data.Close() //nolint:errcheck // the change is written
	return data.RevokeToken(name)
}

func (e *env) clientRemove(ctx context.Context, id string) error {
	client, err := clients.ByID(id)
	if err != nil {
		return err
	}
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	undone, err := e.undoClient(w, id, time.Time{})
	if err != nil {
		return err
	}
	// What was put there by hand, or by a crib whose backups are gone.
	took, err := e.unregister(client, w)
	if err != nil {
		return err
	}
	if !undone && !took {
		return crib.Errorf(crib.NotFound, "the crib is not registered in %s", client.Title())
	}
	if err := revokeToken(w.Config, tokenName(id, "")); err != nil {
		return err
	}
	return e.done(ctx, w.Config, "Removed the crib from "+client.Title())
}

// undoClient takes back the registrations in a client since a time, newest
// first.
func (e *env) undoClient(w *workspace.Workspace, id string, since time.Time) (found bool, err error) {
	backups, err := w.Backups()
	if err != nil {
		return false, err
	}
	for _, b := range slices.Backward(backups) {
		if !b.Registers() || b.Client != id || b.Time.Before(since) {
			continue
		}
		found = true
		if err := e.undo(w, b); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (e *env) unregister(client *clients.Client, w *workspace.Workspace) (bool, error) {
	changes, line, err := client.Unregister(e.clients(), clients.RegistrationName)
	if err != nil || len(changes) == 0 {
		return false, err
	}
	if err := w.Commit(workspace.Unregister, client.ID(), "", changes); err != nil {
		return false, err
	}
	e.tell("%s", line)
	return true, nil
}

// listedClient is a client as the command prints it.
type listedClient struct {
	Client string   `json:"client"`
	Title  string   `json:"title"`
	State  string   `json:"state"` // registered, not registered or not found
	Other  int      `json:"other_servers"`
	Files  []string `json:"files"`
	Error  string   `json:"error,omitempty"`
}

func (e *env) clientList(asJSON bool) error {
	w, err := e.openWorkspace()
	if err != nil {
		return err
	}
	list := []listedClient{}
	for _, c := range clients.All() {
		list = append(list, e.clientState(c, "http://"+w.Config.Listen))
	}
	if asJSON {
		return e.writeJSON(list)
	}
	s := e.screen()
	styles := map[string]text.Style{stateRegistered: text.Green, stateAbsent: text.Dim}
	var rows [][]text.Cell
	for _, c := range list {
		rows = append(rows, []text.Cell{{Text: c.Client}, styles[c.State].Cell(c.State), {Text: fmt.Sprint(c.Other)}, {Text: c.Files[0]}})
	}
	s.Table([]string{"CLIENT", "STATE", "OTHER SERVERS", "FILE"}, rows)
	for _, c := range list {
		if c.Error != "" {
			e.say("%s: %s", c.Title, c.Error)
		}
	}
	return nil
}

// The states of a client.
const (
	stateRegistered = "registered"
	stateWithout    = "not registered"
	stateAbsent     = "not found"
)

func (e *env) clientState(c *clients.Client, address string) listedClient {
	where := e.clients()
	out := listedClient{Client: c.ID(), Title: c.Title(), State: stateAbsent, Files: c.Files(where)}
	if c.Detect(where) {
		out.State = stateWithout
	}
	entries, err := c.Read(where)
	if err != nil {
		out.Error = err.Error()
	}
	ours := slices.DeleteFunc(slices.Clone(entries), func(entry clients.Entry) bool { return !clients.IsCrib(entry, address) })
	if len(ours) > 0 {
		out.State = stateRegistered
	}
	out.Other = len(entries) - len(ours)
	return out
}
