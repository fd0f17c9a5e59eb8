/** Builds the page that is served at `/` if the console is not built. It has links and next steps. */

/** @param baseUrl the address of the REST interface */
export function renderLandingPage(baseUrl: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Bulkhead</title>
<style>
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 4rem auto; padding: 0 1rem; }
  code { background: #8882; padding: .1em .3em; border-radius: .2em; }
</style>
<h1>Bulkhead is running</h1>
<p>This is a plugin catalog and plugin host for crews of AI agents. Its REST interface is at
<code>${baseUrl}</code>.</p>
<p>The console is not built. Run <code>sh deploy/node.sh console/build-console.ts</code>, and
<code>sh deploy/node.sh docs/build-site.ts</code> for the documentation, then restart the service.</p>
<p>Get a token with <code>npm run -s token -- &lt;user&gt;</code>. To see a plugin published, installed and run, use
<code>npm run demo</code>. Read <a href="/docs">the documentation</a>.</p>
</html>
`;
}
