/** Safari reads the content some time after the click. Milliseconds. */
const REVOKE_AFTER_MS = 60_000;

/** Downloads content that the page created. */
export function downloadFile(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), REVOKE_AFTER_MS);
}
