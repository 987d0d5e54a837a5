import sys
from concurrent.futures import ThreadPoolExecutor

from penstock import Penstock

client = Penstock()
client.put_queue("api-calls", {"rate": "5/s", "pull": True})
get = client.paced("api-calls", wait=30)  # like urllib.request.urlopen, but each call waits for its turn


def fetch(number):
    with get(sys.argv[1]) as response:
        return response.status


with ThreadPoolExecutor(4) as pool:
    for status in pool.map(fetch, range(10)):
        print(status)
