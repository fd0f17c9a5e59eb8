/** Preformatted untrusted text that scrolls, by keyboard too. */
import type { ComponentPropsWithoutRef } from 'react';

export function PreformattedText(props: ComponentPropsWithoutRef<'pre'>) {
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
  return <pre {...props} className="payload foreign" tabIndex={0} />;
}
