/** Fetches JSON. `host.http.fetch` returns every status, so errors are detected here. */
export async function readJson<Body>(address: string): Promise<Body> {
  const { status, bodyText } = await host.http.fetch(address, { timeoutMs: 10_000 });
  if (status !== 200) throw new Error(`${new URL(address).host} answered ${status}`);
  return JSON.parse(bodyText);
}
