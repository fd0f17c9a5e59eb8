/** The redirect path that the operator registers at the issuer. */
export const RETURN_PATH = '/signed-in';
/** Makes the page at the redirect path go to the issuer at once, and close when the user is signed in. */
export const WINDOW_MARK = '#window';

/** Whether the issuer has answered to this page. */
export const isAnswered = (): boolean => location.pathname === RETURN_PATH && location.search !== '';
export const isOwnWindow = (): boolean => location.pathname === RETURN_PATH && location.hash === WINDOW_MARK;
