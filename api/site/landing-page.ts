/** The page at `/` when the console is not built: links and next steps. */

/** @param baseUrl address of the REST interface for users */
export function landingPage(baseUrl: string): string {
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
<p>This is a plugin catalog and plugin host for crews of AI agents. It is used over its REST interface at
<code>${baseUrl}</code>.</p>
<p>Get a token with <code>npm run -s token -- &lt;user&gt;</code> and see a plugin published, installed and run with
<code>npm run demo</code>. See <a href="/docs">the documentation</a>.</p>
</html>
`;
}
