/** Shown in place of a page whose code could not be loaded, or that failed. The frame around it stays. */
import { useRouter } from '@tanstack/react-router';
import { ErrorAlert } from './error-alert.tsx';

export function PageError({ error }: { readonly error: unknown }) {
  const router = useRouter();
  // The router fetches the page's code again only when it loads the route again.
  return <ErrorAlert isPage error={error} reset={() => void router.invalidate()} />;
}
