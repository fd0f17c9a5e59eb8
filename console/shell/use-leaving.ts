/** Navigation at the end of an action. */
import { useNavigate, useRouter } from '@tanstack/react-router';

/**
 * Returns a function to call when the action begins. It returns a `navigate` that does nothing if the user has opened another
 * page in the meantime.
 */
export function useLeaving(): () => ReturnType<typeof useNavigate> {
  const navigate = useNavigate();
  const router = useRouter();
  return () => {
    const { pathname } = router.latestLocation;
    return async (options) => {
      if (router.latestLocation.pathname === pathname) await navigate(options);
    };
  };
}
