package config

// Template is a toolcrib.yaml to start from. As it stands it says nothing that
// is not the default.
const Template = `# The configuration of this crib. What is commented out is the default.
# toolcrib check says what is wrong in here, with line and column.

# listen: 127.0.0.1:8090

# auth:
#   anonymous: false            # true lets every program of this machine call without a token

# runtime:
#   mcp: { allowed_hosts: [] }     # further names by which clients call this machine, such as crib.example.com
#   cors: { allowed_origins: [] }  # web pages that may call, such as https://app.example.com

# Where the secrets that servers need are looked up, in this order.
# secrets:
#   - { store: env }
#   - { store: file, dir: secrets }                       # a file for each secret, such as secrets/GH_TOKEN
#   - { store: exec, name: op, command: [op, read] }      # not a default: a command that prints the secret

# Servers can be defined here, or each in a page of its own: mcp/<name>.md.
# tools:
#   - name: files
#     from: mcp:npx
#     params: { mcp_args: "-y @modelcontextprotocol/server-filesystem@2025.8.21 /tmp" }
#   - name: remote
#     from: mcp:https://mcp.example.com/v1
#     params: { mcp_auth_token: "${ secrets:EXAMPLE_TOKEN }" }
`
