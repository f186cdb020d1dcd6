"""Check the files in `deploy/` with the tools of their field, in an environment of its own.

`make deploy-check` runs it: the chart is rendered by Go's own templates, every manifest is compared
with the schemas of Kubernetes, and hadolint reads the Dockerfile.
"""

from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
